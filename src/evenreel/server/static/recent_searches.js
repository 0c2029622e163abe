// The latest searches, which only this browser keeps.

import { remember, remembered } from "./remembered.js";

const KEY = "evenreel-searches";
const MOST = 8;

/**
 * The latest searches, the last one first.
 *
 * @returns {string[]}
 */
export function recentSearches() {
  try {
    const kept = JSON.parse(remembered(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one) => typeof one === "string").slice(0, MOST) : [];
  } catch {
    return []; // written by somebody else
  }
}

/**
 * Keep a search.
 *
 * @param {string} query
 */
export function keepSearch(query) {
  const text = query.trim();
  if (text) put([text, ...recentSearches().filter((one) => one !== text)].slice(0, MOST));
}

/** Forget them all. */
export const forgetSearches = () => put([]);

const put = (searches) => remember(KEY, JSON.stringify(searches));
