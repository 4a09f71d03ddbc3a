module.exports = {
  hello: () => "hello world",
};
