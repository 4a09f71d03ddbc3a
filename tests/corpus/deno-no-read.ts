try {
  Deno.readTextFileSync("/etc/hostname");
  console.log("read it");
} catch (error) {
  console.log((error as Error).name);
}
