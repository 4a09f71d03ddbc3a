try {
  await fetch("http://127.0.0.1:8099/");
  console.log("fetched");
} catch (error) {
  console.log((error as Error).name);
}
