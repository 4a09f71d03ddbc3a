// Sends a message to a chat: Slack, Mattermost, Rocket.Chat, Discord, Microsoft Teams, or to a phone by ntfy.
//
//     fndctl invoke notify -d '{"url": "https://hooks.slack.com/services/...", "text": "Backup done"}'
//
// As `call` of `[alert]`, or in `[hooks]`, it needs the address in NOTIFY_URL below: the payload is the alert, or the record.
//
// /// fnd
// description = "Posts a message to a chat webhook"
// on_load = false
// permissions = ["net"]
// [env]
// NOTIFY_URL = ""
// NOTIFY_FORM = "auto"
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

const payload = JSON.parse(await new Response(Deno.stdin.readable).text());
const url = payload.url || Deno.env.get("NOTIFY_URL");
const [title, text] = message(payload);
if (!url || !text) {
  console.error('expected {"url": "...", "text": "..."}, or an alert and the address in NOTIFY_URL');
  Deno.exit(FAILED);
}

// Returns a title and a text for an alert, for the record that a hook brings, or for a plain message.
function message(payload: any): [string, string] {
  if (payload.alert) {
    const lines = [payload.message, payload.output && "```\n" + payload.output + "\n```", payload.help];
    return [`${payload.function ?? "node"}: ${payload.alert}`, lines.filter(Boolean).join("\n")];
  }
  if (payload.record) {
    const { record } = payload;
    return [`${record.function}: ${record.state}`, record.message || record.reason || record.state];
  }
  return ["", payload.text ?? ""];
}

// Returns the form that the receiver of an address understands.
function form(url: string): string {
  const asked = Deno.env.get("NOTIFY_FORM") ?? "auto";
  if (asked !== "auto") return asked;
  const { hostname, pathname } = new URL(url);
  if (hostname.endsWith("discord.com") && !pathname.endsWith("/slack")) return "discord";
  if (hostname.endsWith(".office.com") || hostname.endsWith(".logic.azure.com")) return "teams";
  if (hostname.startsWith("ntfy.")) return "ntfy";
  return "slack";
}

function request(url: string): RequestInit {
  const json = (body: unknown) => ({ headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const whole = title ? `*${title}*\n${text}` : text;
  switch (form(url)) {
    case "discord":
      return json({ content: whole.replaceAll(/^\*(.*)\*$/gm, "**$1**").slice(0, 2000) });
    case "teams": {
      const block = (text: string, weight: string) => ({ type: "TextBlock", text, weight, wrap: true });
      const body = [...(title ? [block(title, "Bolder")] : []), block(text, "Default")];
      const content = { type: "AdaptiveCard", version: "1.4", body };
      const contentType = "application/vnd.microsoft.card.adaptive";
      return json({ type: "message", attachments: [{ contentType, content }] });
    }
    case "ntfy":
      return { headers: title ? { title } : {}, body: text };
    default:
      return json({ text: whole, ...(payload.channel && { channel: payload.channel }) });
  }
}

let answer: Response;
try {
  answer = await fetch(url, { method: "POST", signal: AbortSignal.timeout(10_000), ...request(url) });
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
