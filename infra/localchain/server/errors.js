'use strict';
// JSON-RPC errors, with the numbers that Agave uses.

class RpcError extends Error {
  constructor(code, message, data) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

module.exports = {
  RpcError,
  PARSE: -32700,
  INVALID_REQUEST: -32600,
  NO_METHOD: -32601,
  INVALID_PARAMS: -32602,
  INTERNAL: -32603,
  PREFLIGHT: -32002,
  SIGNATURE: -32003,
};
