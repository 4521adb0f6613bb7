// What matched in a passage that a search found.

const letter = /[\p{L}\p{M}\p{N}]/u, unspaced = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}]/u;
const common = new Set('a an and are as at be by did do does for from had has have how i in is it my of on or she he that the their they this to was we were what when where which who why will with you your'.split(' '));
const most = 200, before = 60; // characters of a passage, and before its first match

/** Returns a place in a text, or the one before it, which would cut no character in half. */
export const between = (text, at) => /[\udc00-\udfff]/.test(text[at] ?? '') ? at - 1 : at;

// fold makes letters comparable, each in its place: without case and accents.
const fold = (text) => Array.from(text, (c) => {
  const plain = c.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase();
  return plain.length === c.length ? plain : c;
}).join('');

// stem cuts an ending, so that "sleeps" marks "sleep" and "sleeping", too.
const stem = (word) => word.replace(/(?<=.{3})(ing|ed|es|s|e)$/, '');

/** Returns the words of a question that are worth a mark: the common ones only if there are no others. */
function wordsOf(query) {
  const all = fold(query.normalize()).match(/(?<!\s-|[\p{L}\p{M}\p{N}])[\p{L}\p{M}\p{N}]+/gu)?.slice(0, 64) ?? [], some = all.filter((word) => !common.has(word));
  return [...new Set((some.length > 0 ? some : all).map(stem))];
}

// matches yields [begin, end] of each place of a needle. Words match where a word begins, to its end.
function* matches(folded, needle, words) {
  const inside = !words || unspaced.test(needle);
  for (let at = folded.indexOf(needle); at >= 0; at = folded.indexOf(needle, at + needle.length)) {
    if (!inside && at > 0 && letter.test(folded[at - 1])) continue;
    let end = at + needle.length;
    if (!inside) while (end < folded.length && letter.test(folded[end])) end++;
    if (inside || end - at <= needle.length + 4) yield [at, end];
  }
}

/** Returns what a row shows of a memory that was found, as pieces, [text, matched]. It begins a little before the first match. */
export function passage(memory, query, exact) {
  const { text, offset } = memory.passage ?? { text: memory.content, offset: 0 };
  const folded = fold(text), needles = exact ? [fold(query)] : wordsOf(query);
  const found = needles.flatMap((needle) => needle ? [...matches(folded, needle, !exact)] : []).sort((a, b) => a[0] - b[0]);
  const first = found[0]?.[0] ?? 0;
  let begin = first > before ? text.lastIndexOf(' ', first - before / 2) + 1 : 0;
  if (first - begin > before) begin = between(text, first - before / 2); // one long word
  const end = between(text, begin + most), pieces = begin + offset > 0 ? [['… ', false]] : [];
  let at = begin;
  for (const [from, to] of found) {
    if (from < at || from >= end) continue;
    pieces.push([text.slice(at, from), false], [text.slice(from, to), true]);
    at = to;
  }
  pieces.push([text.slice(at, Math.max(at, end)), false]);
  return pieces.filter(([piece]) => piece);
}
