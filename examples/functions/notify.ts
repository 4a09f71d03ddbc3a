// Sends a message to a Slack-compatible webhook (Slack, Mattermost, Rocket.Chat, Discord with /slack).
//
//     fndctl invoke notify -d '{"url": "https://hooks.slack.com/services/...", "text": "Backup done"}'
//
// /// fnd
// description = "Posts a message to a chat webhook"
// on_load = false
// permissions = ["net"]
// [limits]
// timeout = "30s"
// deadline = "10m"
// [retry]
// retries = 5
// interval = "1s"
// on = ["transient", "timeout"]
// [queue]
// max = 1000
// rate = "1/s"
// ///
const FAILED = 65; // final: trying again would not help
const TRANSIENT = 75; // fnd tries again, with growing gaps

const { url, text, channel } = JSON.parse(await new Response(Deno.stdin.readable).text());
if (typeof url !== "string" || typeof text !== "string") {
  console.error('expected {"url": "...", "text": "..."}');
  Deno.exit(FAILED);
}

let answer: Response;
try {
  answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ text, ...(channel && { channel }) }),
    signal: AbortSignal.timeout(10_000),
  });
} catch (error) {
  console.error((error as Error).message);
  Deno.exit(TRANSIENT);
}
const body = await answer.text();
if (!answer.ok) {
  console.error(`the webhook answered ${answer.status}: ${body.slice(0, 200)}`);
  Deno.exit(answer.status === 429 || answer.status >= 500 ? TRANSIENT : FAILED);
}
console.log(JSON.stringify({ sent: true, attempt: Number(Deno.env.get("FND_ATTEMPT")) }));
