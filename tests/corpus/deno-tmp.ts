const path = `${Deno.env.get("TMPDIR")}/x`;
Deno.writeTextFileSync(path, "kept");
console.log(Deno.readTextFileSync(path));
