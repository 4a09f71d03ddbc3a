console.log(Deno.env.get("FND_FUNCTION"), (() => {
  try {
    return String(Deno.env.get("SOMETHING_ELSE"));
  } catch (error) {
    return (error as Error).name;
  }
})());
