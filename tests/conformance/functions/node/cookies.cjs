module.exports = () => ({ status: 200, headers: { "Set-Cookie": ["a=1", "b=2"] }, body: "fine" });
