export default (event: any) => event.data;
