console.log(Deno.readTextFileSync("/etc/os-release").length > 0);
