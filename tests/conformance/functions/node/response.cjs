module.exports = () => ({ status: 201, headers: { "X-Name": "value" }, body: { made: true } });
