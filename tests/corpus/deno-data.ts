console.log(JSON.parse(Deno.env.get("DATA")!).a + 1);
