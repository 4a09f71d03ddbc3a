// Checks that a URL answers as expected, and fast enough.
//
//     fndctl invoke http-probe -d '{"url": "https://example.com/", "status": 200, "contains": "Example"}'
//
// /// fnd
// description = "Probes a URL"
// on_load = false
// labels = { team = "web" }
// permissions = ["net"]
// data = { url = "https://example.com/" }
// [limits]
// timeout = "30s"
// [retry]
// retries = 2
// interval = "2s"
// on = ["transient", "timeout"]
// ///
const TRANSIENT = 75; // fnd tries again after this exit code

const { url, status = 200, contains, within_ms = 5000 } = JSON.parse(
  await new Response(Deno.stdin.readable).text(),
);

const started = performance.now();
let answer: Response;
let text: string;
try {
  answer = await fetch(url, { signal: AbortSignal.timeout(within_ms) });
  text = await answer.text();
} catch (error) {
  console.error(`${url}: ${(error as Error).message}`);
  Deno.exit(TRANSIENT);
}
const took = Math.round(performance.now() - started);

console.log(JSON.stringify({ url, status: answer.status, took_ms: took }));
if (answer.status !== status) {
  console.error(`${url}: status ${answer.status}, expected ${status}`);
  Deno.exit(answer.status >= 500 ? TRANSIENT : 1);
}
if (contains !== undefined && !text.includes(contains)) {
  console.error(`${url}: the answer does not contain ${JSON.stringify(contains)}`);
  Deno.exit(1);
}
