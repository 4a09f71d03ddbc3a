// Until fnd passes the path of its socket: the connection on descriptor 3.
export { descriptor as open } from "../share/js/descriptor.mjs";
