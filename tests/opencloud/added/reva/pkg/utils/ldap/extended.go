package ldap

import "github.com/go-ldap/ldap/v3"

// Extended is what the ldap package that OpenCloud asks for has besides. Nothing here speaks LDAP.
func (*ConnWithReconnect) Extended(*ldap.ExtendedRequest) (*ldap.ExtendedResponse, error) {
	return nil, ldap.NewError(ldap.LDAPResultNotSupported, nil)
}
