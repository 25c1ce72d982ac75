//! The quota store, with what its files and its variable hold.

use super::files::Files;
use crate::config::model::{Quota, RedisTls, StoreKind};
use crate::config::raw::RawQuota;

pub(super) fn build(raw: RawQuota, files: &Files<'_>) -> Quota {
    let RawQuota { mut quota, password_env, password_file, ca, cert, key } = raw;
    // Whatever else was asked for has been refused.
    if quota.store == StoreKind::Memory {
        return quota;
    }
    let password = match (password_env, password_file) {
        (Some(name), _) => files.variable("quota.redis.password_env", &name),
        (None, Some(file)) => files.secret("quota.redis.password_file", &file),
        (None, None) => None,
    };
    if password.is_some() {
        quota.redis.url.password = password;
    }
    quota.redis.tls = RedisTls {
        ca: ca.and_then(|path| files.certificates("quota.redis.tls.ca", &path)),
        client: cert.zip(key).and_then(|(cert, key)| {
            let cert = files.certificates("quota.redis.tls.cert", &cert);
            cert.zip(files.private_key("quota.redis.tls.key", &key))
        }),
    };
    quota
}
