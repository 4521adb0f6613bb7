// Package contracttest checks the running APIs against their OpenAPI documents. A test
// puts [Transport] under its HTTP client. Then every answer is checked, whatever the
// subject of the test. The document must list its status for the operation. The required
// headers must exist and fit their schemas. The content type and the body must be the
// documented ones. If the API accepted a request body, the document must allow that body.
// [Seen] returns the operations and statuses that were seen.
//
// santhosh-tekuri/jsonschema checks the schemas. It implements JSON Schema 2020-12, the
// dialect of OpenAPI 3.1, in full. This package checks the parts that OpenAPI adds around
// the schemas, because no library is as strict. libopenapi-validator 0.16 accepts a body
// where none is documented, and skips text bodies unless a decoder is registered for
// them. It and kin-openapi check only the operations of paths, not the answers to
// requests that match no operation. Neither refuses a compression that is not documented.
//
// Only tests import this package.
package contracttest
