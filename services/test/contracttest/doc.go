// Package contracttest checks the running APIs against their OpenAPI documents. A test
// puts [Transport] under its HTTP client. Then every answer is checked, whatever the
// subject of the test. The document must list its status for the operation. The required
// headers must exist and fit their schemas. The content type and the body must be the
// documented ones. If the API accepted a request body, the document must allow that body.
// [Unseen] returns the documented answers that no test got.
//
// santhosh-tekuri/jsonschema checks the schemas. This package checks what OpenAPI adds
// around them: libopenapi-validator and kin-openapi accept bodies and compressions that no
// document has, and check only the operations of paths.
//
// Only tests import this package.
package contracttest
