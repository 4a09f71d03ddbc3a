const lines: string[] = ["crlf"];
console.log(`a
b ${lines[0]}`.length);
