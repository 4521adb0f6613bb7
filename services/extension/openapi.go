package extension

import _ "embed"

//go:generate go run ../internal/openapi/bundle openapi.json openapi.yaml ../door/openapi.yaml

// OpenAPI is the document of this API, OpenAPI 3.1, made from openapi.yaml and
// what both APIs have in common, door/openapi.yaml.
//
//go:embed openapi.json
var OpenAPI []byte
