"""What requests may say and answers do say: attrs classes, checked strictly, from which the OpenAPI document is made."""
