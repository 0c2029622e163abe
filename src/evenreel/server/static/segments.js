// Two moments far apart in a long film are two results: a person looks for the scene, not for the file.

const LONG_S = 600;
const APART_S = 120;

/**
 * The stretches of a clip that stand as results of their own, the best first; one where it is short. Each is like the
 * hit, with the moments and the words that lie in it, and `segment`: which it is, of how many.
 *
 * @typedef {import("./api.js").FoundClip & {segment: {number: number, of: number}}} Segment
 */

/**
 * @param {import("./api.js").FoundClip} hit
 * @returns {Segment[]}
 */
export function segmentsOf(hit) {
  const together = hit.steps?.length || hit.duration_s === null; // both moments of an order are one result
  const groups = !together && hit.duration_s >= LONG_S ? apart(hit.moments) : [hit.moments];
  const nearest = (time) => {
    const far = groups.map((moments) => Math.min(...moments.map((one) => Math.abs(one.time_s - time))));
    return far.indexOf(Math.min(...far));
  };
  const within = (texts, number) => texts.filter((text) => groups.length === 1 || nearest(text.start_s) === number);
  return groups.map((moments, number) => ({
    ...hit,
    moments,
    on_screen: within(hit.on_screen, number),
    said: within(hit.said, number),
    still: number ? moments[0].still : hit.still,
    segment: { number: number + 1, of: groups.length },
  }));
}

/**
 * The stretch that a segment stands for; without times where no moment of the clip was found.
 *
 * @param {Segment} segment
 * @returns {import("./selection.js").Stretch & {name: string}}
 */
export function stretchOf({ clip_id, name, moments }) {
  const { start_s = null, end_s = null } = moments[0] ?? {};
  return { clip_id, name, start_s, end_s };
}

/** Moments in groups, those of one less than `APART_S` from its first. */
function apart(moments) {
  const groups = [];
  for (const moment of moments) {
    const near = groups.find(([first]) => Math.abs(first.time_s - moment.time_s) < APART_S);
    if (near) near.push(moment);
    else groups.push([moment]);
  }
  return groups.length ? groups : [[]];
}
