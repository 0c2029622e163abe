// Filters that were clicked together, and the text of the filter language that they stand for.

/**
 * A value that a column must have (several of one column: any of them), or a range that it must be in.
 *
 * @typedef {{column: string, value: string | number | boolean}} OneOf
 * @typedef {{column: string, low: number | null, high: number | null}} Range
 * @typedef {OneOf | Range} Condition
 */

/**
 * The filter that holds all conditions and what was typed; empty where there are none.
 *
 * @param {Condition[]} conditions
 * @param {string} typed
 * @returns {string}
 */
export function compose(conditions, typed) {
  const columns = [...new Set(conditions.map((condition) => condition.column))];
  const parts = columns.map((column) =>
    ofColumn(
      column,
      conditions.filter((one) => one.column === column),
    ),
  );
  if (typed.trim()) parts.push(typed.trim());
  return parts.length > 1 ? parts.map((part) => `(${part})`).join(" and ") : parts.join("");
}

function ofColumn(column, conditions) {
  const values = conditions.filter(isValue).map((condition) => condition.value);
  // The language compares one kind at a time: 12 and '12' of one column are two tests.
  const kinds = [
    values.filter((value) => typeof value === "string"),
    values.filter((value) => typeof value !== "string"),
  ];
  const tests = kinds.filter((kind) => kind.length).map((kind) => `${column} in (${kind.map(literal).join(", ")})`);
  return [...tests, ...conditions.filter((one) => !isValue(one)).map(rangeTest)].join(" or ");
}

function rangeTest({ column, low, high }) {
  const ends = [low !== null && `${column} >= ${low}`, high !== null && `${column} <= ${high}`];
  return ends.filter(Boolean).join(" and ");
}

const literal = (value) => (typeof value === "string" ? `'${value.replaceAll("'", "''")}'` : String(value));

/** @returns {boolean} whether this is a value, not a range. */
export const isValue = (condition) => "value" in condition;

/** @returns {boolean} whether two conditions are the same. */
export const same = (one, other) => JSON.stringify(toJson(one)) === JSON.stringify(toJson(other));

/**
 * The short form that an address holds: [column, value] or [column, low, high].
 *
 * @param {Condition} condition
 * @returns {any[]}
 */
export function toJson(condition) {
  return isValue(condition) ? [condition.column, condition.value] : [condition.column, condition.low, condition.high];
}

/**
 * The condition of a short form, or null where it is none: addresses are written by anybody.
 *
 * @param {any} short
 * @returns {Condition | null}
 */
export function fromJson(short) {
  if (!Array.isArray(short) || typeof short[0] !== "string" || !short[0]) return null;
  const [column, first, second] = short;
  if (short.length === 2)
    return ["string", "number", "boolean"].includes(typeof first) ? { column, value: first } : null;
  const isEnd = (end) => end === null || Number.isFinite(end);
  const isRange = short.length === 3 && isEnd(first) && isEnd(second) && (first !== null || second !== null);
  return isRange ? { column, low: first, high: second } : null;
}
