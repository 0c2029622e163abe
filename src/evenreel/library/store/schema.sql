-- The catalog of a library. What is marked 'own' is a person's and has a copy (`evenreel.library.store.user_tables`). All
-- else can be made again: from the feature shards (evenreel verify --repair), and `files` by indexing the folders.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,   -- see evenreel.library.store.catalog
    value TEXT NOT NULL
) WITHOUT ROWID;

-- own: folders that were indexed, absolute
CREATE TABLE roots (path TEXT PRIMARY KEY) WITHOUT ROWID;

-- own: favourites and notes, of a clip or of a moment of it
CREATE TABLE marks (
    number    INTEGER PRIMARY KEY,      -- in the order in which they were made
    clip_id   TEXT NOT NULL,            -- of no clip where its file is gone
    time_s    REAL NOT NULL,            -- -1: the whole clip
    favourite INTEGER NOT NULL,
    note      TEXT NOT NULL,
    path      TEXT NOT NULL,            -- as files.path, when it was marked
    made      TEXT NOT NULL,            -- ISO 8601
    UNIQUE (clip_id, time_s)
);

-- own: searches under a name
CREATE TABLE searches (
    number INTEGER PRIMARY KEY,
    name   TEXT NOT NULL UNIQUE,
    query  TEXT NOT NULL,
    filter TEXT,
    seen   TEXT NOT NULL,               -- JSON list of the clips that it has shown
    looked TEXT NOT NULL                -- when it was last looked at, ISO 8601
);

-- One row a path. A path whose bytes are not UTF-8 is stored as a BLOB.
CREATE TABLE files (
    path     TEXT PRIMARY KEY,
    name     TEXT NOT NULL,         -- last part of the path, printable
    root     TEXT NOT NULL,
    size     INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    state    TEXT NOT NULL CHECK (state IN ('indexed', 'set_aside', 'missing')),
    clip_id  TEXT REFERENCES clips (clip_id),   -- NULL when set aside
    reason   TEXT,                  -- code of evenreel.errors.Reason
    sentence TEXT,                  -- what a person reads about it
    metadata TEXT NOT NULL DEFAULT '{}'   -- flat JSON object, from the table beside the videos
) WITHOUT ROWID;
CREATE INDEX files_by_clip ON files (clip_id);

-- One row a content: two files with the same bytes are one clip. clip_id is a digest of the bytes.
CREATE TABLE clips (
    clip_id     TEXT PRIMARY KEY,
    container   TEXT NOT NULL,
    codec       TEXT NOT NULL,
    width       INTEGER NOT NULL,
    height      INTEGER NOT NULL,
    duration_s  REAL,
    fps         REAL,
    has_vision  INTEGER NOT NULL,   -- stage: frames are encoded
    has_text    INTEGER NOT NULL,   -- stage: on-screen text is read
    notes       TEXT NOT NULL DEFAULT '[]',     -- JSON list of sentences (short file, damaged stretch, ...)
    shard_hash  TEXT NOT NULL
) WITHOUT ROWID;

-- Clips that a file had before it was edited, and clips whose shard is being written; the end of an index run drops
-- those that no file has.
CREATE TABLE replaced (clip_id TEXT PRIMARY KEY) WITHOUT ROWID;

-- Sampled frames. A moment stands for the stretch [start_s, end_s) around its frame at time_s.
CREATE TABLE moments (
    clip_id TEXT NOT NULL REFERENCES clips (clip_id) ON DELETE CASCADE,
    number  INTEGER NOT NULL,       -- 0, 1, ... = row of the shard's frames
    time_s  REAL NOT NULL,
    start_s REAL NOT NULL,
    end_s   REAL NOT NULL,
    PRIMARY KEY (clip_id, number)
) WITHOUT ROWID;

-- Shots, by where they begin and end; none of a clip in which they were not looked for.
CREATE TABLE shots (
    clip_id TEXT NOT NULL REFERENCES clips (clip_id) ON DELETE CASCADE,
    number  INTEGER NOT NULL,
    start_s REAL NOT NULL,
    end_s   REAL NOT NULL,
    PRIMARY KEY (clip_id, number)
) WITHOUT ROWID;

-- When a clip was recorded, where its file says it; see evenreel.media.video.
CREATE TABLE recorded (
    clip_id TEXT PRIMARY KEY REFERENCES clips (clip_id) ON DELETE CASCADE,
    created TEXT NOT NULL       -- ISO 8601
) WITHOUT ROWID;

CREATE TABLE tracks (
    track_id   INTEGER PRIMARY KEY,
    clip_id    TEXT NOT NULL REFERENCES clips (clip_id) ON DELETE CASCADE,
    number     INTEGER NOT NULL,
    text       TEXT NOT NULL,       -- best reading
    readings   TEXT NOT NULL,       -- JSON list of every distinct reading, the best first
    confidence REAL NOT NULL,
    start_s    REAL NOT NULL,
    end_s      REAL NOT NULL,
    box        TEXT NOT NULL,       -- JSON [x0, y0, x1, y1], fractions of the picture
    UNIQUE (clip_id, number)
);

-- What says something of a clip: subtitle files beside its files, subtitle streams, speech models. A clip whose streams
-- were looked at has a row of source 'stream'.
CREATE TABLE transcripts (
    clip_id  TEXT NOT NULL REFERENCES clips (clip_id) ON DELETE CASCADE,
    number   INTEGER NOT NULL,
    source   TEXT NOT NULL,         -- 'sidecar', 'stream' or 'recognised'
    origin   TEXT NOT NULL,         -- path of the subtitle file (as files.path), number of the stream, name of the model
    language TEXT,                  -- BCP 47
    size     INTEGER,               -- stamp of the subtitle file
    mtime_ns INTEGER,
    ctime_ns INTEGER,
    problem  TEXT,                  -- what a person reads about a source that could not be read
    PRIMARY KEY (clip_id, number)
) WITHOUT ROWID;

CREATE TABLE utterances (
    utterance_id INTEGER PRIMARY KEY,
    clip_id      TEXT NOT NULL REFERENCES clips (clip_id) ON DELETE CASCADE,
    number       INTEGER NOT NULL,  -- 0, 1, ... within the clip
    transcript   INTEGER NOT NULL,  -- transcripts.number
    text         TEXT NOT NULL,
    start_s      REAL NOT NULL,
    end_s        REAL NOT NULL,
    language     TEXT,
    confidence   REAL,              -- NULL for subtitles
    speaker      TEXT,
    words        TEXT NOT NULL,     -- JSON list of [text, start_s, end_s, confidence]; [] where the source has no times
    UNIQUE (clip_id, number)
);

-- derived: a small number for each clip, by which searches count: columns of a search have a place for each. One that no
-- clip has any more keeps its number (gone). `change` rises with whatever a search keeps of a clip: its vectors, whether a
-- file of it is there, and how nonsense scores on it.
CREATE TABLE clip_keys (
    key     INTEGER PRIMARY KEY,
    clip_id TEXT NOT NULL UNIQUE,
    gone    INTEGER NOT NULL DEFAULT 0,
    change  INTEGER NOT NULL
);
CREATE INDEX clip_keys_by_change ON clip_keys (change);
-- derived: full text over what is written on screen. rowid = tracks.track_id. all readings of a track, each word once.
CREATE VIRTUAL TABLE track_words USING fts5 (text, tokenize = "unicode61 remove_diacritics 2");
-- derived: the distinct folded words of track_words and on how many tracks each is; '' counts the tracks. A word that is
-- nowhere any more stays with 0. `change` rises with each, so that a reader reads what has changed.
CREATE TABLE track_vocabulary (word TEXT PRIMARY KEY, texts INTEGER NOT NULL, change INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX track_vocabulary_by_change ON track_vocabulary (change);
-- derived: clip, confidence and times of neighbouring track ids; see evenreel.library.store.fulltext
CREATE TABLE track_blocks (block INTEGER PRIMARY KEY, facts BLOB NOT NULL);
-- derived: the same over what is said. rowid = utterances.utterance_id
CREATE VIRTUAL TABLE said_words USING fts5 (text, tokenize = "unicode61 remove_diacritics 2");
CREATE TABLE said_vocabulary (word TEXT PRIMARY KEY, texts INTEGER NOT NULL, change INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX said_vocabulary_by_change ON said_vocabulary (change);
CREATE TABLE said_blocks (block INTEGER PRIMARY KEY, facts BLOB NOT NULL);
-- derived: the same over file names and given captions. rowid = names.name_id. The vocabulary has no words with digits.
CREATE TABLE names (name_id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE);
CREATE VIRTUAL TABLE about USING fts5 (name, caption, tokenize = "unicode61 remove_diacritics 2");
CREATE TABLE about_vocabulary (word TEXT PRIMARY KEY, texts INTEGER NOT NULL, change INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX about_vocabulary_by_change ON about_vocabulary (change);
CREATE TABLE about_blocks (block INTEGER PRIMARY KEY, facts BLOB NOT NULL);

-- derived: rows of the vector matrix, in the file vectors.<generation>.f16
CREATE TABLE vector_rows (
    clip_id   TEXT PRIMARY KEY REFERENCES clips (clip_id) ON DELETE CASCADE,
    first_row INTEGER NOT NULL,
    count     INTEGER NOT NULL
) WITHOUT ROWID;
-- derived: how nonsense queries score in this library (JSON), see evenreel.library.store.vectors
CREATE TABLE null_scores (clip_id TEXT PRIMARY KEY, mean REAL NOT NULL, deviation REAL NOT NULL) WITHOUT ROWID;
-- What a clip sounds like to a model of sounds: `sound_moments` and what follows are as `moments`, `vector_rows` (in the
-- file sounds.<generation>.f16) and `null_scores`. A clip that another model has heard than that of `meta` has no rows.
CREATE TABLE heard (
    clip_id      TEXT PRIMARY KEY REFERENCES clips (clip_id) ON DELETE CASCADE,
    weights_hash TEXT NOT NULL,     -- of the model
    problem      TEXT               -- why there is nothing to hear
) WITHOUT ROWID;
CREATE TABLE sound_moments (
    clip_id TEXT NOT NULL REFERENCES clips (clip_id) ON DELETE CASCADE,
    number  INTEGER NOT NULL,
    time_s  REAL NOT NULL,
    start_s REAL NOT NULL,
    end_s   REAL NOT NULL,
    PRIMARY KEY (clip_id, number)
) WITHOUT ROWID;
CREATE TABLE sound_rows (
    clip_id   TEXT PRIMARY KEY REFERENCES clips (clip_id) ON DELETE CASCADE,
    first_row INTEGER NOT NULL,
    count     INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE sound_null_scores (clip_id TEXT PRIMARY KEY, mean REAL NOT NULL, deviation REAL NOT NULL) WITHOUT ROWID;
-- derived: the same of what is said, written on screen and captioned, in windows of text that come in this order (in the
-- file meanings.<generation>.f16; see evenreel.library.store.meanings). A clip has rows while its texts are as they were.
CREATE TABLE meaning_rows (
    clip_id   TEXT PRIMARY KEY REFERENCES clips (clip_id) ON DELETE CASCADE,
    first_row INTEGER NOT NULL,
    count     INTEGER NOT NULL,
    said      INTEGER NOT NULL,     -- how many windows are of what is said, and of what is on screen; the rest of captions
    on_screen INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE meaning_null_scores (clip_id TEXT PRIMARY KEY, mean REAL NOT NULL, deviation REAL NOT NULL) WITHOUT ROWID;
-- own: the names that a person gave, and by what each is known again: the mean vector of its faces, which outlives them;
-- see evenreel.library.people
CREATE TABLE people (
    person_id INTEGER PRIMARY KEY,      -- as faces.person_id
    name      TEXT NOT NULL,
    mean      BLOB                      -- float16
);
-- derived: faces in clips, only where people were asked for
CREATE TABLE faces (
    face_id   INTEGER PRIMARY KEY,
    clip_id   TEXT NOT NULL,
    time_s    REAL NOT NULL,
    box       TEXT NOT NULL,            -- JSON [x0, y0, x1, y1], fractions of the picture
    score     REAL NOT NULL,
    vector    BLOB NOT NULL,            -- float16
    jpeg      BLOB NOT NULL,
    person_id INTEGER                   -- NULL until it is grouped
);
CREATE INDEX faces_by_person ON faces (person_id, clip_id);
CREATE INDEX faces_by_clip ON faces (clip_id);
-- derived: clips in which faces were looked for, and a sentence where that failed
CREATE TABLE face_clips (clip_id TEXT PRIMARY KEY, problem TEXT) WITHOUT ROWID;
