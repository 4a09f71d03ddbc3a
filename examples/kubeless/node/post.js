module.exports = {
  echo: (event) => event.data,
};
