// The passage of a text that a search found, with what matched in it.

const letter = /[\p{L}\p{N}]/u, unspaced = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}]/u;
const common = new Set('a an and are as at be by did do does for from had has have how i in is it my of on or she he that the their they this to was we were what when where which who why will with you your'.split(' '));
const most = 200, before = 60; // characters of a passage, and before its first match

// fold makes letters comparable, each in its place: without case and accents.
const fold = (text) => Array.from(text, (c) => {
  const plain = c.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase();
  return plain.length === c.length ? plain : c;
}).join('');

// stem cuts an ending, so that "sleeps" marks "sleep" and "sleeping", too.
const stem = (word) => word.replace(/(?<=.{3})(ing|ed|es|s|e)$/, '');

/** Returns the words of a question that are worth a mark: the common ones only if there are no others. */
function wordsOf(query) {
  const all = fold(query).match(/(?<!\s-|[\p{L}\p{N}])[\p{L}\p{N}]+/gu)?.slice(0, 64) ?? [], some = all.filter((word) => !common.has(word));
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

/** Returns the passage as pieces, [text, matched]: of the exact text, or where most of the words are. */
export function passage(text, query, exact) {
  const folded = fold(text), needles = exact ? [fold(query)] : wordsOf(query);
  const found = needles.flatMap((needle, word) => needle ? [...matches(folded, needle, !exact)].map(([from, to]) => ({ from, to, word })) : []).sort((a, b) => a.from - b.from);
  let best = 0, first = 0;
  found.forEach(({ from }, i) => {
    const words = new Set();
    for (let j = i; j < found.length && found[j].to - from < most - before; j++) words.add(found[j].word);
    if (words.size > best) [best, first] = [words.size, from];
  });
  let begin = first > before ? text.lastIndexOf(' ', first - before / 2) + 1 : 0;
  if (first - begin > before) begin = first - before / 2; // one long word
  const end = begin + most, pieces = begin > 0 ? [['… ', false]] : [];
  let at = begin;
  for (const { from, to } of found) {
    if (from < at || from >= end) continue;
    pieces.push([text.slice(at, from), false], [text.slice(from, to), true]);
    at = to;
  }
  pieces.push([text.slice(at, Math.max(at, end)), false]);
  return pieces.filter(([piece]) => piece);
}
