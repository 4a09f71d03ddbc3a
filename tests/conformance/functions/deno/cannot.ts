export default () => 1n;
