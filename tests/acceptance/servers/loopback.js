// Loaded before a node server that offers no choice of address: it listens on 127.0.0.1 only.
const { Server } = require("net");
const listen = Server.prototype.listen;
Server.prototype.listen = function (where, ...rest) {
  if (typeof where !== "number") return listen.call(this, where, ...rest);
  return listen.call(this, { port: where, host: "127.0.0.1" }, ...rest.filter((value) => typeof value === "function"));
};
