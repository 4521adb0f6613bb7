package core

import _ "embed"

// OpenAPI is the document of this API, OpenAPI 3.1.
//
//go:embed openapi.json
var OpenAPI []byte
