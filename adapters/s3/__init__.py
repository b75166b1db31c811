"""Blobs in a bucket of any S3: AWS, MinIO, SeaweedFS, Ceph."""
