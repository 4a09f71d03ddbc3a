enum Color { Red = "red" }
interface Shape { color: Color }
const shape = { color: Color.Red } satisfies Shape;
console.log(JSON.stringify(shape));
