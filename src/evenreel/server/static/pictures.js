// Pictures to search by: dropped anywhere, pasted, or chosen. They stay in this page, known by a number.

import { byId } from "./dom.js";

/** @type {File[]} */
const pictures = [];

/** @returns {File | undefined} the picture of a number; none after a reload. */
export const pictureOf = (number) => pictures[number];

/**
 * Listen for pictures.
 *
 * @param {(number: number) => void} onPicture told the number of the new picture
 * @param {(sentence: string) => void} onRefused told why what was dropped is none
 */
export function listenForPictures(onPicture, onRefused) {
  const take = (files) => {
    const picture = [...files].find((file) => file.type.startsWith("image/"));
    if (picture) onPicture(pictures.push(picture) - 1);
    else if (files.length) onRefused(`${files[0].name} is not a picture; drop a JPEG or a PNG, for example.`);
  };
  listenForDrops(take);
  document.addEventListener("paste", (event) => {
    if (event.clipboardData?.files.length) take(event.clipboardData.files);
  });
  byId("choose-picture").addEventListener("click", () => byId("picture-file").click());
  byId("picture-file").addEventListener("change", ({ target }) => {
    take(target.files);
    target.value = "";
  });
}

function listenForDrops(take) {
  const overlay = byId("drop");
  const holdsFiles = (event) => event.dataTransfer?.types.includes("Files") && !byId("player").open;
  const show = (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    overlay.hidden = false;
  };
  document.addEventListener("dragenter", show);
  document.addEventListener("dragover", show);
  document.addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) overlay.hidden = true;
  });
  document.addEventListener("drop", (event) => {
    overlay.hidden = true;
    if (!holdsFiles(event)) return;
    event.preventDefault();
    take(event.dataTransfer.files);
  });
}
