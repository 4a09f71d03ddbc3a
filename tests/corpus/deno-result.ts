console.log("noise");
Deno.writeTextFileSync(Deno.env.get("FND_RESULT")!, JSON.stringify({ ok: true }));
