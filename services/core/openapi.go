package core

import _ "embed"

//go:generate go run ../httpapi/openapi/bundle openapi.json openapi.yaml ../httpapi/openapi.yaml

// OpenAPI is this API's OpenAPI 3.1 document. It is made from openapi.yaml and from
// httpapi/openapi.yaml, the common part of both APIs.
//
//go:embed openapi.json
var OpenAPI []byte
