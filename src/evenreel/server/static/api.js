// The REST API: one function a request. A refusal becomes an ApiError that holds the server's own sentence. Records are
// as its OpenAPI document says (`evenreel.server.api`).

const LONGEST_WAIT_S = 30;

/** Why a request was not answered, in one sentence. */
export class ApiError extends Error {
  /**
   * @param {number} status HTTP status, 0 where the server was not reached
   * @param {number | null} retryAfter seconds after which the server asks to be tried again
   */
  constructor(status, sentence, retryAfter = null) {
    super(sentence);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/**
 * How to search.
 *
 * @typedef {{where: string, k: number, signal: AbortSignal}} Options
 */

/**
 * Search by a sentence.
 *
 * @param {Options & {how: {typing?: true, paused?: true}, beside: {then: string, right: string[], wrong: string[]}}}
 *   options whether it is still typed, so that its last word may be a beginning, and nobody types just now; what is to
 *   come after it; clips that are right and wrong
 */
export const search = (q, options) =>
  json(
    `/api/v1/search?${parameters({ q, ...limits(options), ...options.how, ...options.beside })}`,
    options,
  );

/** Search by a picture, whose bytes are the body, and by `options.words` beside it. */
export const searchImage = (picture, options) =>
  json(`/api/v1/search/image?${parameters({ ...limits(options), q: options.words })}`, {
    signal: options.signal,
    method: "POST",
    headers: { "Content-Type": picture.type },
    body: picture,
  });

/** Clips that look like a clip at a time, or like all of it, and like `options.words` beside it. */
export const similar = (clipId, time, options) =>
  json(`${clipAddress(clipId)}/similar?${parameters({ t: time, ...limits(options), q: options.words })}`, options);

/** All that is known of a clip. */
export const clip = (clipId, signal) => json(clipAddress(clipId), { signal });

/** What is said in a clip, by each source. */
export const transcripts = (clipId, signal) => json(`${clipAddress(clipId)}/transcripts`, { signal });

/** A part of the small silent copy of a clip; waits while it is made. */
export const preview = async (clipId, part, signal) => {
  const address = `${clipAddress(clipId)}/preview?${parameters({ part })}`;
  const response = await patiently(() => answered(address, { signal }), undefined, signal);
  return response.blob();
};

/**
 * Clips in one form: the file, its name, and sentences on what is unusual or left out; waits while others are made.
 */
export const exported = async (wanted, signal) => {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(wanted) };
  const response = await patiently(() => answered("/api/v1/export", { ...options, signal }), undefined, signal);
  const disposition = response.headers.get("Content-Disposition") ?? "";
  const [, coded, plain] = /filename(?:\*=utf-8''([^;]+)|="([^"]*)")/.exec(disposition) ?? [];
  const notes = response.headers.get("Evenreel-Notes");
  return {
    file: await response.blob(),
    name: coded ? decodeURIComponent(coded) : plain || "clips",
    sentences: notes ? JSON.parse(decodeURIComponent(notes)) : [],
  };
};

/** Address of the picture of a clip at a time. */
export const stillAddress = (clipId, time, width) => `${clipAddress(clipId)}/still?${parameters({ t: time, width })}`;

/** Address of the face of somebody who has a name. */
export const faceAddress = (name) => `/api/v1/people/still?${parameters({ who: name })}`;

/** What the library holds. */
export const stats = (signal) => json("/api/v1/stats", { signal });

/** Searches that are known to find something. @returns {Promise<Example[]>} */
export const examples = (signal) => json("/api/v1/examples", { signal });

/** Some clips without a query. */
export const browse = (wanted, signal) => json(`/api/v1/browse?${parameters(wanted)}`, { signal });

/** Where a clip's file is, told to whoever sits at the server's machine. */
export const filePlace = (clipId, signal) => json(`${clipAddress(clipId)}/folder`, { signal });

/** Show a clip's file in the file manager of the server's machine. */
export const openFolder = (clipId) => json(`${clipAddress(clipId)}/folder`, { method: "POST" });

/** Favourites and notes. @returns {Promise<Mark[]>} */
export const marks = (signal) => json("/api/v1/marks", { signal });

/** Make a clip or a moment a favourite, or write a note to it. @returns {Promise<Mark>} */
export const mark = (clipId, said) => json(`${clipAddress(clipId)}/mark`, sent(said));

/** Saved searches. @returns {Promise<SavedSearch[]>} */
export const savedSearches = (signal) => json("/api/v1/saved", { signal });

/** Save a search; what it finds now counts as seen. */
export const saveSearch = (search) => json("/api/v1/saved", sent(search));

/** Forget a saved search. */
export const removeSearch = (name) => answered(`/api/v1/saved?${parameters({ name })}`, { method: "DELETE" });

/**
 * What a saved search finds that is new.
 *
 * @param {"news" | "seen"} how `seen`: none of it is new from now on
 */
export const newOf = (name, how) =>
  json(`/api/v1/saved/${how}?${parameters({ name })}`, how === "seen" ? { method: "POST" } : {});

/** Highlights: clips that are unlike the rest. */
export const highlights = (k, signal) => json(`/api/v1/highlights?${parameters({ k })}`, { signal });

/** Some files of the library. */
export const files = (wanted, signal) => json(`/api/v1/files?${parameters(wanted)}`, { signal });

/** Start to try again what was skipped. */
export const retry = () => json("/api/v1/retry", { method: "POST" });

/** The folders in one below the server's home folder, each with the number of its videos. */
export const folders = (inside, signal) => json(`/api/v1/folders?${parameters({ inside })}`, { signal });

/** How adding folders goes. */
export const indexing = (signal) => json("/api/v1/indexing", { signal });

/** Start, pause, go on with or stop adding folders. */
export const orderIndexing = (order) =>
  json("/api/v1/indexing", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(order),
  });

/** How far that is. */
export const retryState = (signal) => json("/api/v1/retry", { signal });

/** The server's reason for not sending a file, or null where it would send it. */
export async function refusal(address, signal) {
  try {
    await (await answered(address, { signal, headers: { Range: "bytes=0-0" } })).body?.cancel();
    return null;
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
}

/**
 * Ask until the server answers: a 503 that says when to come back is waited for.
 *
 * @template T
 * @param {(error: ApiError) => void} onWait told the reason before each wait
 */
export async function patiently(ask, onWait = () => {}, signal = undefined) {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof ApiError) || error.retryAfter === null) throw error;
      onWait(error);
      await pause(Math.min(error.retryAfter, LONGEST_WAIT_S), signal);
    }
  }
}

/** Wait, unless aborted. */
export function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

const sent = (record) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(record),
});

const limits = ({ where, k }) => ({ where, k });

const clipAddress = (clipId) => `/api/v1/clips/${encodeURIComponent(clipId)}`;

function parameters(values) {
  const each = Object.entries(values).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  const given = each.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
}

async function json(address, { signal, method, headers, body } = {}) {
  return (await answered(address, { signal, method, headers, body })).json();
}

async function answered(address, options) {
  let response;
  try {
    response = await fetch(address, options);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "The server does not answer. Is evenreel serve still running?");
  }
  if (!response.ok) throw await failure(response);
  return response;
}

async function failure(response) {
  const { detail } = await response.json().catch(() => ({}));
  const sentence = typeof detail === "string" ? detail : `The server answered with status ${response.status}.`;
  const wait = response.headers.get("Retry-After");
  const asksAgain = response.status === 503 && wait !== null && Number.isFinite(Number(wait));
  return new ApiError(response.status, sentence, asksAgain ? Math.max(1, Number(wait)) : null);
}
