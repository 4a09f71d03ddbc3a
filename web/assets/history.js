"use strict";
// A field of an instant is UTC without script, and local time with it. The address has UTC, so it means the same to everybody.
for (const field of document.querySelectorAll("input[type=datetime-local]")) {
  const name = field.labels[0].firstElementChild;
  name.textContent = name.textContent.replace(" (UTC)", "");
  const at = new Date(`${field.defaultValue}Z`);
  const local = new Date(at - at.getTimezoneOffset() * 60000);
  if (field.defaultValue) field.value = field.defaultValue = local.toISOString().slice(0, 16);
  field.form.addEventListener("formdata", ({ formData }) => {
    if (field.value) formData.set(field.name, new Date(field.value).toISOString());
  });
}
