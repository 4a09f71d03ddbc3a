/** Takes the marks off letters. */
exports.plain = (text) => text.normalize("NFD").replaceAll(/\p{Diacritic}/gu, "").replaceAll("ß", "ss");
