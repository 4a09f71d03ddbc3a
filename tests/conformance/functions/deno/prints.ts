export default (event: any) => {
  console.log("out " + event.data);
  console.error("err " + event.data);
  return event.data;
};
