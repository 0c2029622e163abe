// The page: it shows the place that the address names, and goes to another when something is asked for.

import { Adding } from "./adding.js";
import { asks, browses, here, put, START, wholeQuestion, write } from "./address.js";
import { ApiError, patiently, stats, stillAddress } from "./api.js";
import { Browsing } from "./browsing.js";
import { same } from "./conditions.js";
import { byId, element, fill } from "./dom.js";
import { listenToExport } from "./export.js";
import { FilterPanel } from "./filters.js";
import { Home } from "./home.js";
import { listenToCards } from "./keys.js";
import { LibraryView } from "./library.js";
import { listenToMarks, listenToThen, showMarks, showThen } from "./marks.js";
import { listenForPictures, pictureOf } from "./pictures.js";
import { Player } from "./player.js";
import { keepSearch, remember, remembered } from "./remembered.js";
import { Results } from "./results.js";
import { Saved } from "./saved.js";
import { listenToSelection } from "./selection.js";

const TYPING_MS = matchMedia("(pointer: coarse)").matches ? 300 : 90; // after a key; pictures cost a phone more
const SETTLED_MS = 700; // after which the address has what is typed: browsers let a page change it 100 times in 30 s
const FEWEST_LETTERS = 2;
// A prefix or a quote that waits for words.
const BEGUN = /^\s*((said|on-screen|seen|sounds|person)\s*:\s*["“”„]*|["“”„]+)\s*$/i;
const QUERY_PICTURE_PX = 320;
const NO_QUESTION = {
  q: "",
  then: "",
  marks: [],
  like: null,
  likeTime: null,
  picture: null,
  k: START.k,
  browse: "",
  clip: null,
  time: null,
};

let place = here();
let vision = true;
let readsOnly = false; // words, and no pictures
let opensFolders = false;
// Whether what is in the field was typed since the latest entry of the history, which may then be replaced; words can
// be there before this script is.
let typing = byId("query").value !== "";
// Whether the sentence that is searched for is still typed: nobody pressed Enter.
let unfinished = false;
let timer = 0;
let settling = 0; // until the address has what is typed
let thumbnail = null;
let openedAt = 0; // seconds; which of a clip's cards the player was opened from

const filters = new FilterPanel((chosen) => go({ ...chosen, k: START.k }));
const wishes = {
  go: (changes) => go(changes),
  cards: {
    address: cardAddress,
    open: openClip,
    get like() {
      return vision ? goLike : null;
    },
    narrow,
  },
  get readsOnly() {
    return readsOnly;
  },
  get addPictures() {
    return adding.addPictures;
  },
  refusedFilter: (refused, signal) => filters.refuse(refused, signal),
  answered: explainClip,
};
const results = new Results(wishes);
const browsing = new Browsing(wishes);
const home = new Home(wishes);
const saved = new Saved(wishes);
const library = new LibraryView({
  go,
  address: (clipId) => cardAddress(clipId, 0),
  open: (clipId) => openClip(clipId, 0),
});
const player = new Player({
  close: closeClip,
  get opensFolders() {
    return opensFolders;
  },
  moved: keepTime,
  get like() {
    return vision ? goLike : null;
  },
});

const adding = new Adding({ grew: learnMore, ended: learnAll });

/** Change some of what is looked at. */
function go(changes, how = {}) {
  clearTimeout(timer);
  const goesOn = Boolean(how.typed && how.replace);
  if (!goesOn) settle();
  typing = Boolean(how.typed);
  if ("q" in changes) unfinished = typing;
  place = { ...place, ...changes };
  clearTimeout(settling);
  if (typing) settling = setTimeout(pauseTyping, SETTLED_MS);
  if (!goesOn) put(place, how);
  show({ run: Boolean(how.opened) });
}

function pauseTyping() {
  settle();
  results.pause();
  byId("press-enter").hidden = !results.tooSlow;
}

/** Let the address have what was typed, before it gets anything else. */
function settle() {
  clearTimeout(settling);
  if (settling) put(place, { replace: true });
  settling = 0;
}

function show({ run = false } = {}) {
  const inLibrary = place.view === "library";
  byId("search-view").hidden = inLibrary;
  byId("library-view").hidden = !inLibrary;
  document.title = title();
  showLinks();
  showQuestion();
  showThen(place);
  showMarks(place);
  const view = asks(place) ? "results" : browses(place) ? "browsed" : "home";
  for (const id of ["results", "browsed", "home"]) byId(id).hidden = id !== view;
  filters.show(place, view !== "home");
  byId("compact").hidden = view === "home";
  if (inLibrary) library.show(place);
  else if (view === "results") results.show(place, unfinished);
  else if (view === "browsed") browsing.show(place);
  else home.show();
  if (view !== "results") results.leave();
  if (view !== "browsed") browsing.leave();
  if (view !== "home") home.leave();
  saved.at(place, view === "home" && !inLibrary);
  if (view === "results" && !unfinished) keepSearch(wholeQuestion(place));
  if (view !== "home") adding.seen();
  showClip(run);
}

function title() {
  if (place.view === "library") return "Library · evenreel";
  return place.q ? `${place.q} · evenreel` : "evenreel";
}

function showLinks() {
  for (const view of ["search", "library"]) {
    const link = byId(`to-${view}`);
    if (place.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function showQuestion() {
  const field = byId("query");
  if (!typing) field.value = place.q;
  byId("clear").hidden = !asks(place) && !field.value;
  if (thumbnail) URL.revokeObjectURL(thumbnail);
  thumbnail = null;
  const address = queryPicture();
  showPlaceholder(address !== null);
  byId("query-picture").hidden = address === null;
  if (address)
    fill(byId("query-picture"), element("img", { src: address, alt: place.like ? "Clips like this" : "Your picture" }));
}

function showPlaceholder(hasPicture) {
  const words = readsOnly ? "Words on screen, words said, or a name" : "A scene, or words on screen";
  byId("query").placeholder = hasPicture ? "Add words, such as: at night" : words;
}

function queryPicture() {
  if (place.like) return stillAddress(place.like, place.likeTime ?? 0, QUERY_PICTURE_PX);
  const picture = place.picture ? pictureOf(place.picture) : undefined;
  if (picture) thumbnail = URL.createObjectURL(picture);
  return thumbnail;
}

function showClip(run) {
  if (!place.clip) {
    if (player.clipId) leaveClip();
  } else if (player.clipId !== place.clip) {
    player.open(place.clip, place.time ?? 0, { hit: results.hitOf(place.clip), run });
  } else if (place.time !== null && Math.abs(place.time - player.playback.time) > 1) {
    player.playback.seek(place.time);
  }
}

function leaveClip() {
  const left = player.clipId;
  player.close();
  const cards = [...byId(`${place.view}-view`).querySelectorAll(`[data-clip="${CSS.escape(left)}"]`)];
  const shown = cards.filter((card) => card.checkVisibility());
  const far = (card) => Math.abs(Number(card.dataset.time ?? 0) - openedAt);
  shown.sort((one, other) => far(one) - far(other));
  (shown[0]?.querySelector("a") ?? byId("query")).focus();
}

function cardAddress(clipId, time) {
  return write({ ...place, clip: clipId, time });
}

function openClip(clip, time) {
  openedAt = time;
  go({ clip, time }, { opened: true });
}

function closeClip() {
  // Going back keeps the history as a reader knows it: closed, the player is where it was opened from.
  if (history.state?.opened) history.back();
  else go({ clip: null, time: null }, { replace: true });
}

function keepTime(time) {
  if (!place.clip) return;
  place = { ...place, time };
  put(place, { replace: true, opened: Boolean(history.state?.opened) });
}

function explainClip() {
  const hit = place.clip ? results.hitOf(place.clip) : null;
  if (hit && player.clipId === place.clip) player.explain(hit);
}

function goLike(clipId, time) {
  go({ ...NO_QUESTION, view: "search", like: clipId, likeTime: time });
  toResults();
}

function narrow(condition) {
  if (!place.conditions.some((one) => same(one, condition)))
    go({ conditions: [...place.conditions, condition], k: START.k });
  toResults();
}

function toResults() {
  scrollTo({ top: 0 });
  byId("main").focus({ preventScroll: true });
}

function ask(q, how = {}) {
  if (isAsked(q)) return;
  const { like, likeTime, picture } = place; // which words may stand beside
  go({ ...NO_QUESTION, like, likeTime, picture, then: q.trim() ? place.then : "", view: "search", q }, how);
}

const isAsked = (q) => q.trim() === place.q.trim() && place.q !== "" && place.view === "search";

function clear() {
  go({ ...NO_QUESTION, view: "search" });
  byId("query").focus();
}

function listenToSearch() {
  const field = byId("query");
  byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    settle();
    byId("press-enter").hidden = true;
    if (isAsked(field.value)) results.again(false);
    else ask(field.value.trim());
    typing = unfinished = false;
    keepSearch(wholeQuestion(place));
  });
  field.addEventListener("input", () => {
    clearTimeout(timer);
    byId("clear").hidden = !field.value && !asks(place);
    const waits = field.value.trim() && (results.tooSlow || navigator.connection?.saveData);
    byId("press-enter").hidden = !waits;
    if (!waits) timer = setTimeout(() => askWhileTyping(field.value), TYPING_MS);
  });
  addEventListener("pagehide", settle);
  byId("clear").addEventListener("click", clear);
}

function askWhileTyping(text) {
  if (place.view !== "search" || (!text.trim() && !place.q && (place.like || place.picture !== null))) return;
  if (text.trim() && text.trim().length < FEWEST_LETTERS) return;
  if (BEGUN.test(text)) return;
  ask(text, { typed: true, replace: typing });
}

function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    if (player.dialog.open || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape" && (place.like || place.picture !== null)) clear();
    if (event.key === "/" && !event.target.closest("input, textarea")) {
      event.preventDefault();
      byId("query").select();
      byId("query").focus();
    }
  });
}

function listenToLinks() {
  const visit = (changes) => (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go({ ...changes, clip: null, time: null });
    scrollTo({ top: 0 });
  };
  byId("to-search").addEventListener("click", visit({ view: "search" }));
  byId("to-library").addEventListener("click", visit({ view: "library" }));
  document.querySelector(".brand").addEventListener("click", visit({ ...START }));
  addEventListener("popstate", () => {
    clearTimeout(timer);
    clearTimeout(settling);
    settling = 0;
    typing = false;
    place = here();
    show();
  });
}

/** Smaller cards, which this browser remembers. */
function listenToCompact() {
  const set = (on) => {
    byId("search-view").classList.toggle("compact", on);
    byId("compact").setAttribute("aria-pressed", String(on));
  };
  set(remembered("evenreel-compact") === "1");
  byId("compact").addEventListener("click", () => {
    const on = byId("compact").getAttribute("aria-pressed") !== "true";
    set(on);
    remember("evenreel-compact", on ? "1" : "0");
  });
}

async function learnLibrary() {
  try {
    const held = await patiently(() => stats());
    vision = held.vision;
    readsOnly = held.clips > 0 && held.model === null;
    byId("toggle-filters").hidden = !held.clips;
    opensFolders = held.opens_folders;
    byId("choose-picture").hidden = !vision;
    filters.offer(held);
    home.know(held);
    saved.know(held);
    adding.know(held);
    showPlaceholder(!byId("query-picture").hidden);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    home.fail(error, learnLibrary);
  }
}

/** Videos were added: what is searched in vain is searched again, other results stay as they are looked at. */
async function learnMore() {
  if (byId("search-view").contains(document.activeElement)) return; // what is read or used there stays
  await learnLibrary();
  if (results.answer && !results.answer.hits.length) results.again(false);
}

async function learnAll() {
  await learnLibrary();
  if (asks(place) && !player.clipId) results.again(false);
  library.again();
}

listenToSearch();
listenToKeys();
listenToLinks();
listenToCards();
listenToCompact();
listenToSelection();
listenToExport();
listenToThen({ place: () => place, go });
listenToMarks({ place: () => place, go });
listenForPictures(
  (picture) => {
    go({ ...NO_QUESTION, view: "search", picture });
    toResults();
  },
  (sentence) => {
    if (place.view !== "search") go({ view: "search" });
    for (const id of ["results", "browsed", "home"]) byId(id).hidden = id !== "results";
    results.fail(new ApiError(415, sentence));
  },
);
document.addEventListener("librarychange", learnLibrary); // told by what adds to it
show();
learnLibrary();
saved.learn();
