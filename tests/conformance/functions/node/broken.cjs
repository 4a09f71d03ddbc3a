module.exports = (event) => missing(;
