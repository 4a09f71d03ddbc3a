export default (event: any) => missing(;
