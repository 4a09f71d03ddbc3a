const { name } = JSON.parse(await new Response(Deno.stdin.readable).text());
console.log(JSON.stringify({ hello: name }));
