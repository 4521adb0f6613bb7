package extension

import _ "embed"

//go:generate go run ../httpapi/openapi/bundle openapi.json openapi.yaml ../httpapi/openapi.yaml

// OpenAPI is the document of this API, OpenAPI 3.1, made from openapi.yaml and
// what both APIs have in common, httpapi/openapi.yaml.
//
//go:embed openapi.json
var OpenAPI []byte
