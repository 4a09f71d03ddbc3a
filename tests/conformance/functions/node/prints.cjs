module.exports = (event) => {
  console.log("out " + event.data);
  console.error("err " + event.data);
  return event.data;
};
