// What this browser remembers of the page, the latest searches too; one that keeps nothing does without.

export function remembered(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function remember(key, text) {
  try {
    localStorage.setItem(key, text);
  } catch {
    // a browser that keeps nothing
  }
}

export const PICTURES = "evenreel-pictures";
const KEY = "evenreel-searches";
const MOST = 8;

/** The latest searches, the last one first. */
export function recentSearches() {
  try {
    const kept = JSON.parse(remembered(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string").slice(0, MOST) : [];
  } catch {
    return []; // written by somebody else
  }
}

/** Keep a search. */
export function keepSearch(query) {
  const text = query.trim();
  if (text) put([text, ...recentSearches().filter((one) => one !== text)].slice(0, MOST));
}

/** Forget them all, and the pictures that were searched for. */
export function forgetSearches() {
  put([]);
  remember(PICTURES, "[]");
}

const put = (searches) => remember(KEY, JSON.stringify(searches));
