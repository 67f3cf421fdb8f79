// Where the time of one turn went, as bars on one time line. Knows the trace of docs/http-api.md, and trusts none of it;
// how elements are made and words put into them it is told (`add`, `say` of app.js).

const STAGES = ["silence", "receive", "queued", "vad", "asr", "llm", "tool", "filler", "tts"];
const MOMENTS = ["endpoint", "words_stored", "first_token", "first_clause", "first_audio"];
const MOST_SPANS = 200;

const isTime = (value) => Number.isFinite(value) && value >= 0 && value < 1e9;
const isSpan = (span) => span && isTime(span.start_ms) && isTime(span.end_ms) && span.start_ms <= span.end_ms;
const count = (value) => (Number.isInteger(value) && value > 0 ? value : 0);

// Rows of `{ name, spans: [[start, end], …], ms }`, the moments with one span without width; and where the line ends.
export function rows(trace) {
  const spans = (Array.isArray(trace?.spans) ? trace.spans : []).slice(0, MOST_SPANS).filter(isSpan);
  const stages = STAGES.map((name) => {
    const own = spans.filter((span) => span.name === name).map((span) => [span.start_ms, span.end_ms]);
    return { name, spans: own, ms: own.reduce((sum, [start, end]) => sum + end - start, 0) };
  }).filter((row) => row.spans.length);
  const marks = trace?.marks ?? {};
  const moments = MOMENTS.filter((name) => isTime(marks[name])).map((name) => ({ name, spans: [[marks[name], marks[name]]], ms: marks[name] }));
  const all = [...stages, ...moments];
  return { all, end: Math.max(0, ...all.flatMap((row) => row.spans.map(([, end]) => end))) };
}

export function drawTrace(parent, trace, { add, say }) {
  const { all, end } = rows(trace);
  if (!end) return void say(add(parent, "p", "quiet"), "trace.none");
  const list = add(parent, "ul", "waterfall");
  for (const { name, spans, ms } of all) {
    const row = add(list, "li", name);
    say(add(row, "span", "stage"), `trace.${name}`);
    const track = add(row, "span", "track");
    for (const [start, stop] of spans) {
      const { style } = add(track, "span", start === stop ? "moment" : "span");
      style.left = `${(100 * start) / end}%`;
      if (start !== stop) style.width = `${(100 * (stop - start)) / end}%`;
    }
    add(row, "span", "took", (ms / 1000).toFixed(2));
  }
  const { calls, prompt_tokens, cached_tokens, completion_tokens } = trace.llm ?? {};
  const told = { calls: count(calls), read: count(prompt_tokens), cached: count(cached_tokens), written: count(completion_tokens) };
  if (told.calls) say(add(parent, "p", "quiet"), "trace.tokens", told);
}
