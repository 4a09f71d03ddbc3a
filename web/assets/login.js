"use strict";
// The token is in the fragment, which a browser sends to no server. It leaves the address, and with it the history.
const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token) {
  const form = document.getElementById("login");
  history.replaceState(null, "", location.pathname + location.search);
  form.elements.token.value = token;
  form.submit();
}
