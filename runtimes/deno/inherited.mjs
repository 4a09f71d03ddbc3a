// A release from before fnd passed the path of a socket has its connection at descriptor 3.
export { descriptor as open } from "../share/js/descriptor.mjs";
