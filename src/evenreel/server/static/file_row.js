// Where the file of the clip is that plays: its path to be copied, and its folder to be opened at the server's machine.

import { ApiError, filePlace, openFolder } from "./api.js";
import { breakable, byId, element, fill, icon } from "./dom.js";

const COPIED_MS = 2000;

export class FileRow {
  /**
   * Show the path of a clip: the part below the indexed folder, or all of it at the server's machine.
   *
   * @param {import("./api.js").Clip} clip
   * @param {boolean} opensFolders
   */
  async show(clip, opensFolders) {
    this.request?.abort();
    const request = (this.request = new AbortController());
    const file = clip.files.find(({ state }) => state === "indexed") ?? clip.files[0];
    if (!file) return;
    this.#fill(file.folder ? `${file.folder}/${file.name}` : file.name, null);
    if (!opensFolders) return;
    try {
      const { path } = await filePlace(clip.clip_id, request.signal);
      this.#fill(path, () => openFolder(clip.clip_id));
    } catch (error) {
      if (!request.signal.aborted && !(error instanceof ApiError)) throw error; // the part of it stays
    }
  }

  #fill(path, open) {
    fill(
      byId("player-file"),
      element("code", { dir: "ltr" }, breakable(path)),
      button("Copy path", "copy", () => navigator.clipboard.writeText(path), "Copied"),
      open && button("Open folder", "folder", open, "Opened"),
    );
  }
}

/** A button that says for a moment what came of it. */
function button(text, symbol, act, done) {
  const said = element("span", {}, text);
  const tell = (words) => {
    said.textContent = words;
    setTimeout(() => (said.textContent = text), COPIED_MS);
  };
  const press = async () => {
    try {
      await act();
      tell(done);
    } catch (error) {
      // Browsers keep the clipboard from pages that come without https from another machine.
      tell(error instanceof ApiError ? error.message : "Select and copy it");
    }
  };
  return element("button", { type: "button", class: "quiet small", onclick: press }, icon(symbol), said);
}
