console.error("final");
Deno.exit(65);
