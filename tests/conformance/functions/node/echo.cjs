module.exports = (event) => event.data;
